"""A dialect of SQLAlchemy 2: create_engine("dpsql:///adult.duckdb?user=alice").

The path of a URL is the database; its query gives schema, ledger, user and settings, as
`dpsql.connect` takes them. Statements are DuckDB's SQL, and bound values are an analyst's literals.
Settings of one statement are an option of its execution, and its release stands with the result:

    with engine.connect() as con:
        found = con.execute(query, execution_options={"dpsql": {"epsilon": 0.1}})
        found.context.release.low

What is reflected is the schema: datasets as tables, their declared columns, nothing of the data.
SQLAlchemy finds this module by an entry point; nothing else of dpsql imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sqlalchemy import exc, types
from sqlalchemy.engine import URL, default, reflection
from sqlalchemy.sql import compiler

from dpsql.errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import ReflectedColumn

    from dpsql.release import Release
    from dpsql.schema import Column, Dataset
    from dpsql.session import Session

_SCHEMA = "main"
_OPTION = "dpsql"


class Compiler(compiler.SQLCompiler):
    """SQL as DuckDB writes it, where that is not what SQLAlchemy writes by itself."""

    def limit_clause(self, select: Any, **kw: Any) -> str:
        """LIMIT and OFFSET as numbers: either may stand alone."""
        text = ""
        if select._limit_clause is not None:
            text += f"\n LIMIT {self.process(select._limit_clause, **kw)}"
        if select._offset_clause is not None:
            text += f"\n OFFSET {self.process(select._offset_clause, **kw)}"
        return text

    def visit_is_distinct_from_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return f"{self.process(binary.left)} IS DISTINCT FROM {self.process(binary.right)}"

    def visit_is_not_distinct_from_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return f"{self.process(binary.left)} IS NOT DISTINCT FROM {self.process(binary.right)}"

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        parts = self.process(binary.left, **kw), self.process(binary.right, **kw)
        return f"regexp_matches({', '.join(parts)})"

    def visit_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return f"{self.process(binary.left, **kw)} ILIKE {self.process(binary.right, **kw)}"

    def visit_not_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return f"{self.process(binary.left, **kw)} NOT ILIKE {self.process(binary.right, **kw)}"


class Types(compiler.GenericTypeCompiler):
    """Names of types in CAST."""

    def visit_string(self, type_: Any, **kw: Any) -> str:
        return "VARCHAR"

    visit_text = visit_VARCHAR = visit_TEXT = visit_string

    def visit_float(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE"

    visit_FLOAT = visit_float


class Execution(default.DefaultExecutionContext):
    """One execution; `release` is the answer with its intervals and its price."""

    _answered: Release | None = None

    def post_exec(self) -> None:
        """Keep the answer: the cursor is closed after its last row."""
        if self.cursor is not None and self.cursor.releases:
            self._answered = self.cursor.release

    @property
    def release(self) -> Release:
        """What the statement released. Raises UsageError where none was answered."""
        if self._answered is None:
            raise UsageError("no statement was answered")
        return self._answered


class Dialect(default.DefaultDialect):
    """DuckDB's SQL, answered privately; see the module."""

    name = "dpsql"
    driver = "dpsql"
    default_paramstyle = "qmark"
    default_schema_name = _SCHEMA
    statement_compiler = Compiler
    type_compiler_cls = Types
    execution_ctx_cls = Execution
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_alter = False
    supports_sequences = False
    supports_default_values = False
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    div_is_floordiv = False  # `/` of whole numbers has a fraction
    postfetch_lastrowid = False
    insert_executemany_returning = False
    preexecute_autoincrement_sequences = False
    dbapi_exception_translation_map = {  # noqa: RUF012 -- SQLAlchemy's own attribute
        "Refused": "ProgrammingError",
        "UsageError": "InterfaceError",
        "InternalError": "InternalError",
        "Error": "OperationalError",
    }

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """PEP 249's module."""
        from dpsql.surfaces import dbapi

        return dbapi

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """What `dpsql.connect` is given."""
        given: dict[str, Any] = {}
        for name, value in url.query.items():
            if not isinstance(value, str) and name != "schema":
                raise exc.ArgumentError(f"{name} is given twice in the URL")
            given[name] = value if isinstance(value, str) else list(value)
        if url.host or url.port:
            raise exc.ArgumentError(
                "dpsql opens a file: dpsql:///adult.duckdb, or dpsql:////path/to/adult.duckdb"
            )
        if url.username:
            given["user"] = url.username
        if url.database:
            given["database"] = url.database
        return [], given

    # -- execution -----------------------------------------------------------------------------

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Answer a statement under the settings of its execution options."""
        settings = context.execution_options.get(_OPTION, {}) if context is not None else {}
        if not isinstance(settings, Mapping):
            raise exc.ArgumentError(
                f'execution option {_OPTION} is a dict of settings, e.g. {{"epsilon": 0.1}}'
            )
        cursor.execute(statement, parameters or None, **settings)

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:
        self.do_execute(cursor, statement, None, context)

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Whether a connection is open."""
        return dbapi_connection.session is not None

    def initialize(self, connection: Any) -> None:
        """Nothing is asked of the database to begin with."""

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        return "SERIALIZABLE"

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        return "SERIALIZABLE"

    # -- reflection ----------------------------------------------------------------------------

    def _datasets(self, connection: Any) -> Mapping[str, Dataset]:
        session: Session = connection.connection.dbapi_connection.session
        return session.datasets

    def _dataset(self, connection: Any, name: str, schema: str | None) -> Dataset:
        found = self._datasets(connection).get(name) if schema in (None, _SCHEMA) else None
        if found is None:
            raise exc.NoSuchTableError(name if schema is None else f"{schema}.{name}")
        return found

    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        return [_SCHEMA]

    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        return list(self._datasets(connection)) if schema in (None, _SCHEMA) else []

    def get_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        return []

    def has_table(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        return table_name in self.get_table_names(connection, schema)

    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedColumn]:
        found = self._dataset(connection, table_name, schema).columns
        return [
            {
                "name": column.name,
                "type": _type(column),
                "nullable": column.nullable,
                "default": None,
                "comment": column.description or None,
            }
            for column in found
        ]

    def get_table_comment(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        found = self._dataset(connection, table_name, schema)
        return {"text": found.description or None}

    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        self._dataset(connection, table_name, schema)
        return reflection.ReflectionDefaults.pk_constraint()

    def get_foreign_keys(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        self._dataset(connection, table_name, schema)
        return []

    get_indexes = get_unique_constraints = get_check_constraints = get_foreign_keys


def _type(column: Column) -> types.TypeEngine[Any]:
    """SQLAlchemy's type of a declared column; a category of words lists them."""
    match column.sql_type:
        case "VARCHAR":
            return types.VARCHAR()
        case "BIGINT":
            return types.BIGINT()
        case "DOUBLE":
            return types.DOUBLE()
        case "DATE":
            return types.DATE()
        case "BOOLEAN":
            return types.BOOLEAN()
        case other:
            raise ValueError(f"no type of SQLAlchemy is known for {other}")
